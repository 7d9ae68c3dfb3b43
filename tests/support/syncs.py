"""Which files were synced to the disk."""

import os

import pytest


def note_syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The inodes that this process syncs from now on, in their order."""
    happened: list[int] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        fsync(descriptor)
        happened.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", noted)
    return happened
