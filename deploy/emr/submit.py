"""Package lakestream, submit one of its jobs to EMR Serverless in streaming mode, and follow it.

    python deploy/emr/submit.py --application 00f1abcd --role arn:aws:iam::1:role/lakestream \\
        --code s3://bucket/code --data s3://bucket/lake --metadata-secret lakestream/metadata-url

`--job maintain` submits the upkeep of the tables instead of the compaction: round after round, as
`maintain.interval_ms` says. Its Spark fetches Iceberg's jars, so the application needs a way out.

The application must offer Spark 4.1 and Python 3.11 or newer. The metadata store's URL comes from
Secrets Manager, so no secret is in the job. Ctrl-C ends the following, not the job.
"""

import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import boto3
import click
from boto3.exceptions import S3UploadFailedError
from botocore.exceptions import BotoCoreError, ClientError

ROOT: Final = Path(__file__).resolve().parents[2]
COMPACT: Final = "compact"
MAINTAIN: Final = "maintain"
ENDED: Final = ("SUCCESS", "FAILED", "CANCELLED")
# What the upkeep's Spark needs to rewrite files; the compaction's opens no table.
PACKAGES: Final = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.apache.iceberg:iceberg-aws-bundle:1.12.0",
    "org.postgresql:postgresql:42.7.8",
)
_ICEBERG: Final = {
    "spark.jars.packages": ",".join(PACKAGES),
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
_EXTRAS: Final = "jobs,postgres"
_POLL_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is submitted; `archive` and `entry` are URLs."""

    name: str
    application: str
    role: str
    archive: str
    entry: str
    arguments: Sequence[str]
    metadata_secret: str
    python: str

    def request(self) -> dict[str, Any]:
        """The arguments of `start_job_run`."""
        return {
            "applicationId": self.application,
            "executionRoleArn": self.role,
            "name": f"lakestream-{self.name}",
            "mode": "STREAMING",
            "retryPolicy": {"maxFailedAttemptsPerHour": 5},
            "jobDriver": {
                "sparkSubmit": {
                    "entryPoint": self.entry,
                    "entryPointArguments": list(self.arguments),
                }
            },
            "configurationOverrides": {
                "applicationConfiguration": [
                    {"classification": "spark-defaults", "properties": self._properties()}
                ]
            },
        }

    def _properties(self) -> dict[str, str]:
        both = {"PYTHONPATH": "./environment", "PYSPARK_PYTHON": self.python}
        secret = {"LAKESTREAM_METADATA__URL": f"EMR.secret@{self.metadata_secret}"}
        return {
            "spark.archives": f"{self.archive}#environment",
            **_named("spark.emr-serverless.driverEnv.", {**both, **secret}),
            **_named("spark.executorEnv.", both),
            **(_ICEBERG if self.name == MAINTAIN else {}),
        }


def entry_of(name: str) -> Path:
    """The file that the job runs."""
    return ROOT / "pipelines" / f"{name}.py"


def _named(prefix: str, values: Mapping[str, str]) -> dict[str, str]:
    return {f"{prefix}{name}": value for name, value in values.items()}


def package(folder: Path, *, python_version: str = "3.11") -> Path:
    """The wheel and what it needs on a Spark that is there already, for Linux, as an archive."""
    uv = shutil.which("uv") or str(ROOT / ".venv" / ".bootstrap" / "bin" / "uv")
    _run(uv, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT)
    (wheel,) = folder.glob("*.whl")
    installed = folder / "environment"
    _run(
        *(uv, "pip", "install", "--quiet", "--target", installed, "--only-binary", ":all:"),
        *("--python-version", python_version, "--python-platform", "x86_64-manylinux_2_28"),
        *("--constraint", ROOT / "requirements.lock", f"{wheel}[{_EXTRAS}]"),
    )
    archive = folder / f"{wheel.stem}.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=6) as tar:
        tar.add(installed, arcname=".")
    return archive


def _run(*command: object) -> None:
    done = subprocess.run([str(word) for word in command], check=False)
    if done.returncode != 0:
        raise click.ClickException(f"packaging failed: {command[0]} ended with {done.returncode}")


def upload(s3: Any, path: Path, place: str) -> str:
    """Put a file below a prefix, under a name that another content never has; its URL."""
    bucket, _, prefix = place.removeprefix("s3://").partition("/")
    with path.open("rb") as content:
        digest = sha256()
        while chunk := content.read(1 << 20):
            digest.update(chunk)
    key = "/".join(filter(None, [prefix.strip("/"), digest.hexdigest()[:12], path.name]))
    s3.upload_file(str(path), bucket, key)
    return f"s3://{bucket}/{key}"


def follow(
    emr: Any, application: str, run: str, *, pause: Callable[[float], None] = time.sleep
) -> str:
    """Tell every change of the run's state until it has ended; its last state."""
    told = ""
    while True:
        found = emr.get_job_run(applicationId=application, jobRunId=run)["jobRun"]
        state: str = found["state"]
        if state != told:
            told = state
            click.echo(" ".join(filter(None, [state, found.get("stateDetails", "")])))
        if state in ENDED:
            return state
        pause(_POLL_S)


def _clients(region: str | None, application: str) -> tuple[Any, Any]:
    """Of S3 and EMR; the application is asked for, because packing takes a minute."""
    with _told(f"application {application} cannot be asked for"):
        session = boto3.Session(region_name=region)
        if session.region_name is None:
            raise click.UsageError("no region is named: give --region, or set AWS_DEFAULT_REGION")
        s3, emr = session.client("s3"), session.client("emr-serverless")
        emr.get_application(applicationId=application)
    return s3, emr


@contextmanager
def _told(trouble: str) -> Iterator[None]:
    """What AWS refuses, as a sentence."""
    try:
        yield
    except (BotoCoreError, ClientError, S3UploadFailedError) as error:
        raise click.ClickException(f"{trouble}: {error}") from error


@click.command()
@click.option(
    "--job", "name", type=click.Choice([COMPACT, MAINTAIN]), default=COMPACT, show_default=True
)
@click.option("--application", required=True, help="Id of the EMR Serverless application.")
@click.option("--role", required=True, help="ARN of the role that the job runs as.")
@click.option("--code", required=True, metavar="S3_URL", help="Where the package is put.")
@click.option("--data", required=True, metavar="S3_URL", help="Where everything lies.")
@click.option("--metadata-secret", required=True, help="Secret with the metadata store's URL.")
@click.option("--python", default="python3.11", show_default=True, help="Python on the workers.")
@click.option("--region", help="Region of AWS, unless the environment names it.")
@click.argument("more", nargs=-1)
def main(
    name: str,
    application: str,
    role: str,
    code: str,
    data: str,
    metadata_secret: str,
    python: str,
    region: str | None,
    more: tuple[str, ...],
) -> None:
    """Submit a job and follow it. What follows `--` goes to its file in pipelines/."""
    for flag, url in (("--code", code), ("--data", data)):
        if not url.startswith("s3://"):
            raise click.BadParameter(f"{url!r} does not begin with s3://", param_hint=flag)
    s3, emr = _clients(region, application)
    version = python.removeprefix("python") if python[-1].isdigit() else "3.11"
    with TemporaryDirectory(prefix="lakestream-emr-") as folder:
        packed = package(Path(folder), python_version=version)
        with _told(f"the package cannot be put into {code}"):
            archive, entry = upload(s3, packed, code), upload(s3, entry_of(name), code)
    job = Job(
        name=name,
        application=application,
        role=role,
        archive=archive,
        entry=entry,
        arguments=["--data", data, *more],
        metadata_secret=metadata_secret,
        python=python,
    )
    with _told(f"application {application} does not take the job"):
        run = emr.start_job_run(**job.request())["jobRunId"]
    click.echo(f"job run {run}")
    if follow(emr, application, run) != "SUCCESS":
        sys.exit(1)


if __name__ == "__main__":
    main()
