"""How delta-rs reaches a table's files: from the properties with which pyiceberg does.

What always holds: a property that pyiceberg obeys and delta-rs has a word for is passed on; what is
left out is found as the cloud's own tools find it, by both. delta-rs has no word for
`gcs.oauth2.token`: for Delta on Google's cloud the credentials are those of the environment.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

_S3_SCHEMES: Final = ("s3", "s3a", "s3n")
_GCS_SCHEMES: Final = ("gs", "gcs")
_AZURE_SCHEMES: Final = ("abfs", "abfss", "az", "adl", "wasb", "wasbs")
_S3: Final = {
    # s3.* is the more special one, so it is taken last.
    "client.access-key-id": "aws_access_key_id",
    "client.secret-access-key": "aws_secret_access_key",
    "client.session-token": "aws_session_token",
    "client.region": "aws_region",
    "s3.endpoint": "aws_endpoint",
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "s3.region": "aws_region",
}
_GCS: Final = {"gcs.service.host": "google_base_url"}
_AZURE: Final = {
    "adls.account-name": "azure_storage_account_name",
    "adls.account-key": "azure_storage_account_key",
    "adls.sas-token": "azure_storage_sas_token",
    "adls.tenant-id": "azure_storage_tenant_id",
    "adls.client-id": "azure_storage_client_id",
    "adls.client-secret": "azure_storage_client_secret",
    "adls.token": "azure_storage_token",
}
_IN_CONNECTION_STRING: Final = {
    "accountname": "azure_storage_account_name",
    "accountkey": "azure_storage_account_key",
    "sharedaccesssignature": "azure_storage_sas_token",
    "blobendpoint": "azure_storage_endpoint",
}


def storage_options(location: str, properties: Mapping[str, object]) -> dict[str, str]:
    """The options for a place, by the properties of pyiceberg's file access."""
    own = {key: str(value) for key, value in properties.items()}
    scheme = urlsplit(location).scheme
    if scheme in _S3_SCHEMES:
        return _of_s3(own)
    if scheme in _GCS_SCHEMES:
        return _over_http(_named(_GCS, own), "google_base_url")
    if scheme in _AZURE_SCHEMES:
        return _of_azure(location, own)
    return {}


def _of_s3(own: Mapping[str, str]) -> dict[str, str]:
    options = {**_named(_S3, own), "aws_conditional_put": "etag"}
    if own.get("s3.force-virtual-addressing", "").lower() == "true":
        options["aws_virtual_hosted_style_request"] = "true"
    return _over_http(options, "aws_endpoint")


def _of_azure(location: str, own: Mapping[str, str]) -> dict[str, str]:
    options = {**_connection(own.get("adls.connection-string", "")), **_named(_AZURE, own)}
    account = options.get("azure_storage_account_name") or _account_in(location)
    authority = own.get("adls.blob-storage-authority")
    if authority and account:
        scheme = own.get("adls.blob-storage-scheme", "https")
        # As Arrow reads it: a domain follows the account, a server has the accounts below it.
        place = f"{account}{authority}" if authority.startswith(".") else f"{authority}/{account}"
        options["azure_storage_endpoint"] = f"{scheme}://{place}"
    return _over_http(options, "azure_storage_endpoint")


def _connection(text: str) -> dict[str, str]:
    """What a connection string (`AccountName=a;AccountKey=b==;…`) says."""
    parts = (part.partition("=") for part in text.split(";"))
    found = {name.strip().lower(): value.strip() for name, _, value in parts}
    return _named(_IN_CONNECTION_STRING, found)


def _account_in(location: str) -> str:
    """The account of `abfss://container@account.dfs.core.windows.net/…`, empty if there is none."""
    _, at, host = urlsplit(location).netloc.rpartition("@")
    return host.partition(".")[0] if at else ""


def _named(words: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    return {words[key]: own[key] for key in words if own.get(key)}


def _over_http(options: dict[str, str], endpoint: str) -> dict[str, str]:
    """Without TLS only where the address says so."""
    if options.get(endpoint, "").startswith("http://"):
        options["allow_http"] = "true"
    return options
