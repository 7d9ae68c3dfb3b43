"""From a URL and options to a bucket: which option is which setting of obstore, per cloud.

obstore itself repeats a request at most twice within seconds, which carries a long listing over a
hiccup; an outage is `Retrying`'s to ride out.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store
from pydantic import SecretStr

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.objectstore.assume_role import role_credentials
from lakestream_spark.objectstore.cloud import CloudStore
from lakestream_spark.objectstore.options import StoreOptions

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

_COMMON = {"allow_http", "connect_timeout_s", "request_timeout_s"}
_S3 = {
    "endpoint": "endpoint",
    "region": "region",
    "access_key_id": "access_key_id",
    "secret_access_key": "secret_access_key",
    "session_token": "session_token",
    "role_arn": "role_arn",
    "role_session_name": "role_session_name",
    "web_identity_token_file": "web_identity_token_file",
    "sts_endpoint": "endpoint_url_sts",
    "sse": "server_side_encryption",
    "sse_kms_key_id": "sse_kms_key_id",
    "sse_bucket_key": "sse_bucket_key_enabled",
    "virtual_hosted_style": "virtual_hosted_style_request",
    "s3_express": "s3_express",
}
_GCS = {"endpoint": "base_url", "service_account_file": "service_account"}
_AZURE = {
    "endpoint": "endpoint",
    "account_name": "account_name",
    "account_key": "account_key",
    "sas_token": "sas_key",
    "tenant_id": "tenant_id",
    "client_id": "client_id",
    "client_secret": "client_secret",
    "federated_token_file": "federated_token_file",
}
_RETRIES: "RetryConfig" = {
    "max_retries": 2,
    "retry_timeout": timedelta(seconds=10),
    "backoff": {
        "init_backoff": timedelta(milliseconds=50),
        "max_backoff": timedelta(seconds=1),
        "base": 2,
    },
}


def open_s3(url: SplitResult, options: StoreOptions) -> CloudStore:
    """A bucket of S3, or of a server that speaks its protocol."""
    config = _config(url.scheme, options, _S3)
    if options.sse_kms_key_id and options.sse not in ("aws:kms", "aws:kms:dsse"):
        raise Misconfigured("sse_kms_key_id needs sse to be aws:kms or aws:kms:dsse")
    if options.web_identity_token_file and options.access_key_id:
        raise Misconfigured("say either web_identity_token_file or access_key_id, not both")
    if options.role_arn is None or options.web_identity_token_file:
        return _open(S3Store, url, options, config=config)
    for name in ("access_key_id", "secret_access_key", "session_token", "role_arn"):
        config.pop(name, None)
    credentials = role_credentials(options)
    return _open(S3Store, url, options, config=config, credential_provider=credentials)


def open_gcs(url: SplitResult, options: StoreOptions) -> CloudStore:
    """A bucket of Google Cloud Storage."""
    return _open(GCSStore, url, options, config=_config(url.scheme, options, _GCS))


def open_azure(url: SplitResult, options: StoreOptions) -> CloudStore:
    """A container of Azure Blob Storage."""
    return _open(AzureStore, url, options, config=_config(url.scheme, options, _AZURE))


def _config(scheme: str, options: StoreOptions, names: dict[str, str]) -> dict[str, Any]:
    given = {name: getattr(options, name) for name in options.model_dump(exclude_defaults=True)}
    foreign = sorted(given.keys() - names.keys() - _COMMON)
    if foreign:
        raise Misconfigured(f"a {scheme}:// store has no option {', '.join(foreign)}")
    return {
        names[name]: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in given.items()
        if name in names
    }


def _open(
    bucket: Callable[..., S3Store | GCSStore | AzureStore],
    url: SplitResult,
    options: StoreOptions,
    **settings: Any,
) -> CloudStore:
    place = f"{url.scheme}://{url.netloc}{url.path.rstrip('/')}"
    if not url.netloc:
        raise Misconfigured(f"{place!r} names no bucket; write {url.scheme}://bucket/prefix")
    client: ClientConfig = {
        "allow_http": options.allow_http,
        "connect_timeout": timedelta(seconds=options.connect_timeout_s),
        "timeout": timedelta(seconds=options.request_timeout_s),
    }
    try:
        opened = bucket(
            url.netloc,
            prefix=url.path.strip("/") or None,
            client_options=client,
            retry_config=_RETRIES,
            **settings,
        )
    except (BaseError, ValueError) as error:
        # Only the first line: the rest shows the settings, secrets too.
        raise Misconfigured(
            f"{place} cannot be opened: {str(error).partition(chr(10))[0]}"
        ) from None
    return CloudStore(opened, place)
