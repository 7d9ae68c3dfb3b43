from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.objectstore.cloud import CloudStore
from lakestream_spark.objectstore.local import LocalStore
from lakestream_spark.objectstore.memory import MemoryStore
from lakestream_spark.objectstore.open import open_store
from lakestream_spark.objectstore.options import StoreOptions

SECRET = SecretStr("c2VjcmV0LXZhbHVl")


def test_the_scheme_chooses_the_store(tmp_path: Path):
    assert isinstance(open_store(tmp_path.as_uri()), LocalStore)
    assert isinstance(open_store("memory://"), MemoryStore)
    assert isinstance(open_store("s3://bucket/prefix"), CloudStore)
    assert isinstance(open_store("gs://bucket/prefix"), CloudStore)


@pytest.mark.parametrize(
    ("url", "options", "config"),
    [
        (
            "s3://bucket/some/prefix",
            StoreOptions(
                region="eu-central-1",
                endpoint="https://s3.example.com",
                access_key_id="id",
                secret_access_key=SECRET,
                session_token=SecretStr("token"),
                sse="aws:kms",
                sse_kms_key_id="arn:key",
                sse_bucket_key=True,
                virtual_hosted_style=True,
            ),
            {
                "region": "eu-central-1",
                "endpoint": "https://s3.example.com",
                "server_side_encryption": "aws:kms",
                "sse_kms_key_id": "arn:key",
                "virtual_hosted_style_request": "true",
            },
        ),
        (
            "s3://express--euw1-az1--x-s3",
            StoreOptions(region="eu-west-1", s3_express=True),
            {"s3_express": "true"},
        ),
        (
            "s3://bucket",
            StoreOptions(
                role_arn="arn:role",
                role_session_name="lake",
                web_identity_token_file="/token",
                sts_endpoint="https://sts.example.com",
            ),
            {
                "role_arn": "arn:role",
                "role_session_name": "lake",
                "web_identity_token_file": "/token",
                "endpoint_url_sts": "https://sts.example.com",
            },
        ),
        (
            "gs://bucket",
            StoreOptions(endpoint="https://g.example"),
            {"base_url": "https://g.example"},
        ),
        (
            "az://container/prefix",
            StoreOptions(account_name="account", account_key=SECRET),
            {"account_name": "account", "account_key": SECRET.get_secret_value()},
        ),
        (
            "az://container",
            StoreOptions(
                account_name="account", tenant_id="t", client_id="c", client_secret=SECRET
            ),
            {"tenant_id": "t", "client_id": "c", "client_secret": SECRET.get_secret_value()},
        ),
        (
            "az://container",
            StoreOptions(account_name="account", sas_token=SecretStr("sv=2024&sig=abc")),
            {"account_name": "account"},
        ),
        (
            "az://container",
            StoreOptions(
                account_name="account", tenant_id="t", client_id="c", federated_token_file="/token"
            ),
            {"federated_token_file": "/token"},
        ),
    ],
)
def test_options_reach_the_cloud_store(url: str, options: StoreOptions, config: dict[str, object]):
    store = open_store(url, options)
    assert isinstance(store, CloudStore)
    settings = {name: str(value) for name, value in dict(store.bucket.config).items()}
    assert {name: settings.get(name) for name in config} == config
    assert store.bucket.prefix == (url.split("/", 3)[3] if url.count("/") > 2 else None)
    assert store.url == url


def test_a_service_account_file_that_is_not_there_is_named():
    with pytest.raises(Misconfigured, match="/no/such/file"):
        open_store("gs://bucket", StoreOptions(service_account_file="/no/such/file"))


@pytest.mark.parametrize("url", ["http://host/x", "s3a://bucket", "/a/folder", "", "bucket"])
def test_an_unknown_scheme_names_the_valid_ones(url: str):
    with pytest.raises(Misconfigured, match="file://, s3://, gs://, az://, memory://"):
        open_store(url)


@pytest.mark.parametrize("url", ["file://host/folder", "file://relative", "file:relative"])
def test_a_file_url_must_name_an_absolute_folder(url: str):
    with pytest.raises(Misconfigured, match="file:///absolute/path"):
        open_store(url)


def test_a_file_url_may_hold_escaped_characters(tmp_path: Path):
    folder = tmp_path / "with space"
    assert open_store(f"file://{tmp_path}/with%20space").url == folder.as_uri()


@pytest.mark.parametrize("url", ["s3://", "s3:///key", "gs://", "az://"])
def test_a_bucket_must_be_named(url: str):
    with pytest.raises(Misconfigured, match="names no bucket"):
        open_store(url)


@pytest.mark.parametrize("url", ["s3://id:key@bucket", "s3://bucket?region=x", "file:///a#b"])
def test_credentials_and_settings_do_not_belong_into_the_url(url: str):
    with pytest.raises(Misconfigured, match="options") as raised:
        open_store(url)
    assert "key@" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "options", "name"),
    [
        ("file:///folder", StoreOptions(region="x"), "region"),
        ("memory://", StoreOptions(allow_http=True), "allow_http"),
        ("gs://bucket", StoreOptions(sse="AES256"), "sse"),
        ("s3://bucket", StoreOptions(account_name="x"), "account_name"),
        ("az://container", StoreOptions(role_arn="x"), "role_arn"),
    ],
)
def test_an_option_of_another_store_is_refused(url: str, options: StoreOptions, name: str):
    with pytest.raises(Misconfigured, match=name):
        open_store(url, options)


@pytest.mark.parametrize(
    "options",
    [
        StoreOptions(sse_kms_key_id="key"),
        StoreOptions(sse="AES256", sse_kms_key_id="key"),
        StoreOptions(access_key_id="id"),
        StoreOptions(
            role_arn="r", web_identity_token_file="/t", access_key_id="i", secret_access_key=SECRET
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: StoreOptions):
    with pytest.raises(Misconfigured):
        open_store("s3://bucket", options)


def test_azure_needs_an_account(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(Misconfigured, match="Account"):
        open_store("az://container")


def test_a_misspelt_option_is_refused():
    with pytest.raises(ValidationError, match="regoin"):
        StoreOptions.model_validate({"regoin": "eu-central-1"})


def test_secrets_are_not_shown():
    options = StoreOptions(secret_access_key=SECRET, session_token=SECRET, account_key=SECRET)
    assert SECRET.get_secret_value() not in f"{options!r} {options} {options.model_dump_json()}"
