"""deploy/docker: the compose file against its own schema, and against what the program takes."""

import json
import re
import stat
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
import yaml

from lakestream_spark.settings import load
from tests.support.deployment import (
    DEPLOY,
    SECRETS_AT,
    check_command,
    compose,
    environment,
    make_secrets,
    ours,
)

SERVICES: dict[str, dict[str, Any]] = compose()["services"]
BROKERS = [name for name in ours() if name.startswith("broker")]


def settings_of(name: str, tmp_path):
    secrets = make_secrets(tmp_path / "secrets")
    return load(environ=environment(ours()[name], secrets), flags=[]).settings


def test_the_compose_file_is_one():
    schema = files("check_jsonschema.builtin_schemas.vendor") / "compose-spec.json"
    jsonschema.validate(compose(), json.loads(schema.read_text()))
    assert len(BROKERS) == 3


@pytest.mark.parametrize("name", ours())
def test_every_variable_is_a_setting_and_the_secrets_come_from_files(name, tmp_path):
    settings = settings_of(name, tmp_path)
    assert settings.store.url == "s3://lakestream/demo"
    assert settings.metadata.url.startswith("postgresql://lakestream:")
    assert settings.metadata.url.endswith("@postgres/lakestream")
    assert settings.catalog.uri.startswith("postgresql+psycopg2://lakestream:")
    secret = (tmp_path / "secrets" / "s3_secret_key").read_text()
    assert settings.store.secret_access_key is not None
    assert settings.store.secret_access_key.get_secret_value() == secret
    assert settings.catalog.properties["s3.secret-access-key"] == secret
    assert settings.catalog.properties["s3.endpoint"] == settings.store.endpoint
    assert settings.catalog.properties["s3.access-key-id"] == settings.store.access_key_id
    assert SERVICES["s3"]["environment"]["ROOT_ACCESS_KEY"] == settings.store.access_key_id
    token = (tmp_path / "secrets" / "admin_token").read_text()
    assert settings.broker.admin_token is not None
    assert settings.broker.admin_token.get_secret_value() == token


@pytest.mark.parametrize("name", ours())
def test_every_command_is_one_that_the_program_takes(name):
    check_command(SERVICES[name]["command"])


def test_a_command_that_is_none_would_be_noticed():
    with pytest.raises(Exception, match=r"(?i)no such option"):
        check_command(["ingress", "--no-such-option"])


def test_every_secret_that_is_read_is_mounted_and_made(tmp_path):
    made = {path.name for path in make_secrets(tmp_path / "s").iterdir()}
    assert set(compose()["secrets"]) == made
    for name, service in SERVICES.items():
        told = re.findall(rf"{SECRETS_AT}(\w+)", json.dumps(service.get("environment", {})))
        assert set(told) == set(service.get("secrets", ())), name


def test_secrets_that_are_there_stay_and_nobody_else_on_the_host_reads_them(tmp_path):
    folder = make_secrets(tmp_path / "s")
    before = {path.name: path.read_text() for path in folder.iterdir()}
    make_secrets(folder)
    assert {path.name: path.read_text() for path in folder.iterdir()} == before
    assert len(set(before.values())) == len(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    # Containers run as other users, and a secret is mounted with the mode of its file.
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o644}


@pytest.mark.parametrize("name", BROKERS)
def test_a_broker_has_the_same_address_inside_and_outside(name, tmp_path):
    own = settings_of(name, tmp_path).broker
    assert f"127.0.0.1:{own.port}:{own.port}" in SERVICES[name]["ports"]
    assert SERVICES[name]["networks"]["default"]["aliases"] == [own.advertised_host]
    # Names below .localhost are loopback for programs on the host.
    assert own.advertised_host == f"{name}.localhost"
    assert own.host == "0.0.0.0"


def test_brokers_differ_in_id_and_port(tmp_path):
    own = [settings_of(name, tmp_path).broker for name in BROKERS]
    assert len({each.id for each in own}) == len({each.port for each in own}) == len(own)


def admin_port(name: str, tmp_path) -> int:
    settings = settings_of(name, tmp_path)
    ports = {"compact": settings.compact.admin_port, "maintain": settings.maintain.admin_port}
    return ports.get(name, settings.broker.admin_port)


@pytest.mark.parametrize("name", ours())
def test_health_is_asked_where_the_process_answers(name, tmp_path):
    (program,) = [word for word in SERVICES[name]["healthcheck"]["test"] if "urlopen" in word]
    assert f"http://127.0.0.1:{admin_port(name, tmp_path)}/readyz" in program
    assert settings_of(name, tmp_path).broker.admin_host == "0.0.0.0"


def test_prometheus_asks_every_process_at_its_admin_port(tmp_path):
    told = yaml.safe_load((DEPLOY / "monitoring" / "prometheus.yml").read_text())
    asked = {
        target
        for job in told["scrape_configs"]
        for group in job["static_configs"]
        for target in group["targets"]
    }
    assert asked == {f"{name}:{admin_port(name, tmp_path)}" for name in ours()}


def test_nothing_runs_as_root_and_no_port_is_open_to_others():
    dockerfiles = {"Dockerfile", "s3.Dockerfile"}
    for name, service in SERVICES.items():
        if "build" in service:
            own = service["build"]["dockerfile"].rpartition("/")[2]
            assert own in dockerfiles
            text = (DEPLOY / "docker" / own).read_text()
            assert re.findall(r"^USER (\S+)$", text, re.MULTILINE)[-1] == "10001:10001"
        else:
            assert str(service["user"]).partition(":")[0] not in ("0", "root"), name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name


def test_every_file_that_is_mounted_is_there():
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            if source.startswith("."):
                assert (DEPLOY / "docker" / source).exists()
            elif ":" in volume:
                assert source in compose()["volumes"]


def test_a_container_is_given_longer_to_stop_than_a_broker_takes(tmp_path):
    for name in BROKERS:
        given_s = int(SERVICES[name]["stop_grace_period"].removesuffix("s"))
        assert given_s * 1000 > settings_of(name, tmp_path).broker.shutdown_timeout_ms
