"""What may be said about a store beside its URL. Secrets never appear in a repr or a log.

What is left out is found as the cloud's own tools find it: from its environment variables, the
token of a Kubernetes service account, or the machine's own identity.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, SecretStr

Encryption = Literal["AES256", "aws:kms", "aws:kms:dsse"]


class StoreOptions(BaseModel):
    """Options of an object store; one that means nothing for the URL's scheme is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint: str | None = Field(
        default=None, description="The server's address, if not the cloud's own."
    )
    allow_http: bool = Field(default=False, description="Allow an endpoint without TLS.")
    connect_timeout_s: PositiveFloat = Field(
        default=5.0, description="How long to wait for a connection."
    )
    request_timeout_s: PositiveFloat = Field(
        default=15.0, description="How long one request may take, its bytes included."
    )

    region: str | None = Field(default=None, description="S3: the bucket's region.")
    access_key_id: str | None = Field(default=None, description="S3: the id of the access key.")
    secret_access_key: SecretStr | None = Field(
        default=None, description="S3: the secret access key."
    )
    session_token: SecretStr | None = Field(
        default=None, description="S3: token of temporary keys."
    )
    role_arn: str | None = Field(default=None, description="S3: the role to assume.")
    role_session_name: str | None = Field(
        default=None, description="S3: the name of the role's session."
    )
    web_identity_token_file: str | None = Field(
        default=None,
        description="S3: assume the role with the token in this file instead of the keys.",
    )
    sts_endpoint: str | None = Field(default=None, description="S3: where roles are assumed.")
    sse: Encryption | None = Field(
        default=None, description="S3: server-side encryption of new objects."
    )
    sse_kms_key_id: str | None = Field(default=None, description="S3: the KMS key, for aws:kms.")
    sse_bucket_key: bool | None = Field(
        default=None, description="S3: one data key for the whole bucket."
    )
    virtual_hosted_style: bool = Field(
        default=False, description="S3: the bucket's name is in the host's name, not in the path."
    )
    s3_express: bool = Field(
        default=False, description="S3: the bucket is an express (directory) bucket."
    )

    service_account_file: str | None = Field(
        default=None, description="Google: the file of the service account's key."
    )

    account_name: str | None = Field(default=None, description="Azure: the storage account.")
    account_key: SecretStr | None = Field(default=None, description="Azure: the account's key.")
    sas_token: SecretStr | None = Field(
        default=None, description="Azure: a shared access signature."
    )
    tenant_id: str | None = Field(default=None, description="Azure: the tenant of the client.")
    client_id: str | None = Field(default=None, description="Azure: the client that signs in.")
    client_secret: SecretStr | None = Field(default=None, description="Azure: the client's secret.")
    federated_token_file: str | None = Field(
        default=None, description="Azure: sign in with the token in this file."
    )
