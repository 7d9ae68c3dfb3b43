"""Asking before something is gone for good."""

import sys

import click


def require_consent(question: str, *, given: bool) -> None:
    """Ask unless consent is given; raises `Abort` at a no, `UsageError` where nobody answers."""
    if given:
        return
    try:
        agreed = click.confirm(question)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)
        raise click.UsageError("nobody is there to answer: add --yes") from None
    if not agreed:
        raise click.Abort
