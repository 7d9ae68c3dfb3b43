"""deploy/emr: what is sent to EMR Serverless and S3, against moto."""

import re
from pathlib import Path
from typing import Any

import boto3
import pytest
from click.testing import CliRunner
from moto import mock_aws

from lakestream_spark.settings.sources import variable
from lakestream_spark.settings.tree import KEYS
from lakestream_spark.spark.jars import COORDINATES, S3_COORDINATES
from tests.support.deployment import DEPLOY, ROOT, check_command, load_script

submit = load_script(DEPLOY / "emr" / "submit.py")
NAMES = ("compact", "maintain")
ROLE = "arn:aws:iam::123456789012:role/lakestream"


@pytest.fixture
def aws(monkeypatch):
    """The accounts of moto, with a bucket."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with mock_aws():
        place = {"LocationConstraint": "eu-west-1"}
        boto3.client("s3").create_bucket(Bucket="code", CreateBucketConfiguration=place)
        yield


def application() -> str:
    made = boto3.client("emr-serverless").create_application(
        name="lake", releaseLabel="emr-7.13.0", type="SPARK"
    )
    return str(made["applicationId"])


def job(**changes: object):
    given = {
        "name": "compact",
        "application": "00f1",
        "role": ROLE,
        "archive": "s3://code/x.tar.gz",
        "entry": "s3://code/compact.py",
        "arguments": ["--data", "s3://lake/data"],
        "metadata_secret": "lakestream/metadata-url",
        "python": "python3.11",
    }
    return submit.Job(**{**given, **changes})


def properties(request: dict[str, Any]) -> dict[str, str]:
    (defaults,) = request["configurationOverrides"]["applicationConfiguration"]
    return dict(defaults["properties"])


def test_a_job_is_a_stream_that_is_retried_and_carries_no_secret():
    request = job().request()
    assert request["mode"] == "STREAMING"
    assert request["retryPolicy"] == {"maxFailedAttemptsPerHour": 5}
    told = properties(request)
    assert told["spark.archives"] == "s3://code/x.tar.gz#environment"
    prefix = "spark.emr-serverless.driverEnv."
    assert told[f"{prefix}LAKESTREAM_METADATA__URL"] == "EMR.secret@lakestream/metadata-url"
    ours = re.findall(rf"{re.escape(prefix)}(LAKESTREAM_\w+)", " ".join(told))
    assert set(ours) <= {variable(key) for key in KEYS}
    # Workers read what the driver read.
    assert told["spark.executorEnv.PYTHONPATH"] == told[f"{prefix}PYTHONPATH"] == "./environment"


@pytest.mark.parametrize("name", NAMES)
def test_the_entry_takes_the_arguments_it_is_given(name):
    path = submit.entry_of(name)
    assert path == ROOT / "pipelines" / f"{name}.py"
    words = job(name=name).request()["jobDriver"]["sparkSubmit"]["entryPointArguments"]
    check_command(words, getattr(load_script(path), name))


def test_upkeep_runs_on_and_only_its_spark_knows_iceberg():
    """Without `--once` it makes round after round, so nobody has to schedule it."""
    request = job(name="maintain").request()
    assert (request["name"], request["mode"]) == ("lakestream-maintain", "STREAMING")
    told = properties(request)
    assert set(submit.PACKAGES) <= {*COORDINATES, *S3_COORDINATES}
    assert told["spark.jars.packages"] == ",".join(submit.PACKAGES)
    assert told["spark.sql.extensions"].startswith("org.apache.iceberg.spark.extensions.")
    assert set(told) - set(properties(job().request())) == {
        "spark.jars.packages",
        "spark.sql.extensions",
    }


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """Packing it for real takes a minute: one test does that."""
    archive = tmp_path / "lakestream.tar.gz"
    archive.write_bytes(b"packed")
    monkeypatch.setattr(submit, "package", lambda folder, python_version: archive)


def submitted(own: str, *more: str):
    flags = ["--application", own, "--role", ROLE, "--code", "s3://code/jobs/"]
    flags += ["--data", "s3://lake/data", "--metadata-secret", "s", *more]
    return CliRunner().invoke(submit.main, flags)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("aws", "packed")
def test_submits_and_follows_to_the_end(name):
    emr, own = boto3.client("emr-serverless"), application()
    done = submitted(own, "--job", name, "--", "--topics", "orders")
    assert done.exit_code == 0, done.output
    told = done.output.splitlines()
    assert told[0].startswith("job run ")
    assert told[-1].startswith("SUCCESS")
    found = emr.get_job_run(applicationId=own, jobRunId=told[0].removeprefix("job run "))["jobRun"]
    driver = found["jobDriver"]["sparkSubmit"]
    assert driver["entryPointArguments"] == ["--data", "s3://lake/data", "--topics", "orders"]
    assert stored(driver["entryPoint"]) == submit.entry_of(name).read_bytes()


@pytest.mark.parametrize(("state", "code"), [("SUCCESS", 0), ("FAILED", 1), ("CANCELLED", 1)])
@pytest.mark.usefixtures("aws", "packed")
def test_only_a_success_ends_with_code_0(state, code, monkeypatch):
    monkeypatch.setattr(submit, "follow", lambda emr, application, run: state)
    assert submitted(application()).exit_code == code
    assert state in submit.ENDED


def stored(url: str) -> bytes:
    bucket, _, key = url.removeprefix("s3://").partition("/")
    assert key.startswith("jobs/")
    return bytes(boto3.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())


@pytest.mark.usefixtures("aws")
def test_another_content_has_another_name(tmp_path):
    s3, path = boto3.client("s3"), tmp_path / "compact.py"
    path.write_text("1")
    first = submit.upload(s3, path, "s3://code")
    assert submit.upload(s3, path, "s3://code/") == first
    path.write_text("2")
    assert submit.upload(s3, path, "s3://code") != first


def test_a_job_that_failed_is_told_with_its_reason_and_ends_so(capsys):
    states = iter([("SUBMITTED", ""), ("RUNNING", ""), ("RUNNING", ""), ("FAILED", "no room")])

    class Emr:
        def get_job_run(self, **_: str):
            state, details = next(states)
            return {"jobRun": {"state": state, "stateDetails": details}}

    assert submit.follow(Emr(), "a", "r", pause=lambda _: None) == "FAILED"
    assert capsys.readouterr().out.splitlines() == ["SUBMITTED", "RUNNING", "FAILED no room"]


@pytest.mark.parametrize("flag", ["--code", "--data"])
def test_a_place_that_is_not_on_s3_is_refused(flag):
    flags = {"--application": "a", "--role": ROLE, "--metadata-secret": "s"}
    flags |= {"--code": "s3://c", "--data": "s3://d", flag: "/tmp"}
    done = CliRunner().invoke(submit.main, [word for pair in flags.items() for word in pair])
    assert done.exit_code == 2
    assert "does not begin with s3://" in done.output


@pytest.fixture
def unpacked(monkeypatch):
    """Whoever packs has begun too early."""

    def package(folder: Path, python_version: str) -> Path:
        raise AssertionError(f"packed for {python_version} in {folder}")

    monkeypatch.setattr(submit, "package", package)


@pytest.mark.usefixtures("aws", "unpacked")
def test_without_a_region_nothing_is_packed(monkeypatch, tmp_path):
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    done = submitted("00f1")
    assert done.exit_code == 2
    assert "no region is named: give --region, or set AWS_DEFAULT_REGION" in done.output


@pytest.mark.usefixtures("aws", "unpacked")
def test_an_application_that_is_not_there_is_told_before_anything_is_packed():
    done = submitted("00f1")
    assert done.exit_code == 1
    assert "Error: application 00f1 cannot be asked for: " in done.output


@pytest.mark.usefixtures("aws", "packed")
def test_a_bucket_that_is_not_there_is_told():
    boto3.client("s3").delete_bucket(Bucket="code")
    done = submitted(application())
    assert done.exit_code == 1
    assert "Error: the package cannot be put into s3://code/jobs/: " in done.output
