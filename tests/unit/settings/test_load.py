"""Where a setting comes from, which source wins, and the sentence for each mistake."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.objectstore.options import StoreOptions
from lakestream_spark.settings import Entry, Loaded, load
from lakestream_spark.wal.reclaim import ReclaimPolicy
from lakestream_spark.wal.writer import FlushPolicy


def flag(key: str, value: object, origin: str = "--flag") -> Entry:
    return Entry(key=key, value=value, origin=origin)


def conf(folder: Path, text: str) -> Path:
    path = folder / "my.toml"
    path.write_text(text)
    return path


def refused(**arguments: object) -> str:
    with pytest.raises(Misconfigured) as caught:
        load(**{"environ": {}, **arguments})  # type: ignore[arg-type]
    return str(caught.value)


def test_a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default(tmp_path):
    file = conf(tmp_path, "[broker]\nport = 1\nadmin_port = 1\nid = 1\nrack = 'a'\n")
    environ = {"LAKESTREAM_BROKER__PORT": "2", "LAKESTREAM_BROKER__ADMIN_PORT": "2"}
    loaded = load(environ=environ, flags=[flag("broker.port", 3, "--port")], conf=file)
    broker = loaded.settings.broker
    assert (broker.port, broker.admin_port, broker.rack, broker.host) == (3, 2, "a", "127.0.0.1")
    assert loaded.origins["broker.port"] == "--port"
    assert loaded.origins["broker.admin_port"] == "LAKESTREAM_BROKER__ADMIN_PORT"
    assert loaded.origins["broker.rack"] == f"{file}:5"
    assert "broker.host" not in loaded.origins


def test_a_folder_alone_embeds_everything(tmp_path):
    settings = load(environ={}, flags=[flag("data", str(tmp_path))]).settings
    assert settings.metadata.url == f"sqlite:///{tmp_path}/metadata.db"
    assert settings.store.url == settings.wal.latency.url == f"file://{tmp_path}"
    assert settings.catalog.uri == f"sqlite:///{tmp_path}/catalog.db"
    assert settings.catalog.warehouse == f"file://{tmp_path}/warehouse"


def test_a_file_url_means_the_same_as_the_folder(tmp_path):
    by_url = load(environ={}, flags=[flag("data", f"file://{tmp_path}")]).settings
    by_path = load(environ={}, flags=[flag("data", str(tmp_path))]).settings
    assert by_url.model_dump(exclude={"data"}) == by_path.model_dump(exclude={"data"})


def test_a_folder_with_a_blank_in_its_name_is_found_again_by_the_store(tmp_path):
    folder = tmp_path / "my data"
    store = load(environ={}, flags=[flag("data", str(folder))]).settings.store
    assert store.url == f"file://{tmp_path}/my%20data"
    by_url = load(environ={}, flags=[flag("data", f"file://{tmp_path}/my%20data")]).settings
    assert by_url.store.url == store.url


def test_a_relative_folder_becomes_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load(environ={}).settings.store.url == f"file://{tmp_path}/lakestream-data"


def test_a_bucket_holds_wal_and_tables_and_the_catalog_follows_the_metadata_store():
    metadata = "postgresql://u:p@h/db"
    settings = load(
        environ={"LAKESTREAM_METADATA__URL": metadata}, flags=[flag("data", "s3://b/x/")]
    ).settings
    assert settings.store.url == "s3://b/x"
    assert settings.catalog.warehouse == "s3://b/x/warehouse"
    assert settings.catalog.uri == "postgresql+psycopg2://u:p@h/db"


def test_a_bucket_without_a_metadata_store_is_refused_by_key():
    text = refused(flags=[flag("data", "s3://bucket")])
    assert "'metadata.url' is needed" in text


def test_a_place_of_another_kind_is_refused_by_its_scheme():
    text = refused(flags=[flag("data", "nosuch://x", "--data")])
    assert text.startswith("--data: 'nosuch://x' is neither a folder nor the URL of a store")
    assert "file://, s3://" in text


def test_an_empty_place_is_refused():
    text = refused(flags=[flag("data", "", "--data")])
    assert text == "--data is empty: name a folder, or the URL of a bucket"


def test_the_latency_profile_follows_the_store_unless_it_has_its_own_url():
    own = load(environ={}, flags=[flag("wal.latency.url", "s3://fast")]).settings
    shared = load(environ={}, flags=[flag("store.url", "s3://slow")]).settings
    assert (own.wal.latency.url, shared.wal.latency.url) == ("s3://fast", "s3://slow")


def test_an_unknown_key_in_the_file_is_named_with_its_line_and_the_nearest_key(tmp_path):
    file = conf(tmp_path, "# a comment\n[broker]\nid = 1\nprot = 9092\n")
    expected = f"{file}:4: there is no setting 'broker.prot'; did you mean 'broker.port'?"
    assert refused(conf=file) == expected


@pytest.mark.parametrize("name", ["LAKESTREAM_BROKER_PORT", "LAKESTREAM_BROKER__PROT"])
def test_an_unknown_variable_is_named_with_the_nearest_variable(name):
    text = refused(environ={name: "1"})
    assert text.startswith(f"{name}: there is no setting")
    assert text.endswith("did you mean 'LAKESTREAM_BROKER__PORT'?")


def test_an_unknown_key_without_a_neighbour_points_to_the_docs():
    assert "lakestream config docs" in refused(flags=[flag("qqqqqqqq", "1")])


def test_every_mistake_is_named_at_once(tmp_path):
    text = refused(conf=conf(tmp_path, "[broker]\nport = 'x'\nid = -1\n"))
    assert [line.partition(": ")[2].partition(" ")[0] for line in text.splitlines()] == [
        "broker.id",
        "broker.port",
    ]


def test_a_bad_value_is_named_with_the_place_it_came_from(tmp_path):
    file = conf(tmp_path, "[wal.cost]\nflush_bytes = 1\n[broker]\nport = 70000\n")
    text = refused(conf=file)
    assert f"{file}:2: wal.cost.flush_bytes = 1 is not valid" in text
    assert f"{file}:4: broker.port = 70000 is not valid" in text


def test_a_value_where_a_section_belongs_is_refused():
    assert "'broker' is a section" in refused(environ={"LAKESTREAM_BROKER": "x"})


def test_broken_toml_is_one_sentence_with_the_file(tmp_path):
    file = conf(tmp_path, "[broker\n")
    assert refused(conf=file).startswith(f"{file} is not valid TOML: ")


def test_a_missing_file_is_one_sentence(tmp_path):
    assert "cannot be read" in refused(conf=tmp_path / "none.toml")


def test_the_variable_names_the_file_when_the_flag_does_not(tmp_path):
    file = conf(tmp_path, "[broker]\nid = 7\n")
    assert load(environ={"LAKESTREAM_CONF": str(file)}).settings.broker.id == 7


def test_an_empty_value_means_not_set(tmp_path):
    file = conf(tmp_path, "[store]\nregion = ''\n")
    loaded = load(environ={"LAKESTREAM_STORE__ENDPOINT": ""}, conf=file)
    assert loaded.settings.store.region is None
    assert loaded.settings.store.endpoint is None


def secret(loaded: Loaded) -> str:
    found = loaded.settings.store.secret_access_key
    assert found is not None
    return found.get_secret_value()


def test_a_secret_is_read_from_the_file_its_variable_names(tmp_path):
    (tmp_path / "key").write_text("s3cret\n")
    variable = "LAKESTREAM_STORE__SECRET_ACCESS_KEY_FILE"
    loaded = load(environ={variable: str(tmp_path / "key")})
    assert secret(loaded) == "s3cret"
    assert loaded.origins["store.secret_access_key"] == variable
    assert "s3cret" not in repr(loaded)


def test_a_secret_given_twice_is_refused(tmp_path):
    name = "LAKESTREAM_STORE__SECRET_ACCESS_KEY"
    text = refused(environ={name: "a", f"{name}_FILE": "b"})
    assert text == f"both {name} and {name}_FILE are set; keep one of them"


def test_a_secret_file_that_is_missing_is_named():
    name = "LAKESTREAM_STORE__SESSION_TOKEN_FILE"
    assert refused(environ={name: "nowhere"}).startswith(f"{name} names a file that cannot be read")


def test_a_bad_secret_is_not_shown(tmp_path):
    text = refused(conf=conf(tmp_path, "[store]\nsecret_access_key = [1234]\n"))
    assert "1234" not in text
    assert "store.secret_access_key" in text


def test_a_short_token_is_refused_and_not_shown():
    sentence = refused(flags=[flag("broker.admin_token", "too-short")])
    assert "a token has at least 16 characters" in sentence
    assert "too-short" not in sentence


def test_catalog_properties_come_from_a_table_and_are_replaced_as_a_whole_by_json(tmp_path):
    file = conf(tmp_path, '[catalog.properties]\n"s3.region" = "x"\n')
    environ = {"LAKESTREAM_CATALOG__PROPERTIES": '{"token": "t"}'}
    assert load(environ={}, conf=file).settings.catalog.properties == {"s3.region": "x"}
    assert load(environ=environ, conf=file).settings.catalog.properties == {"token": "t"}


def test_an_unknown_section_is_refused_even_when_it_is_empty(tmp_path):
    file = conf(tmp_path, "[broker]\n[brokr]\n")
    assert refused(conf=file).startswith(f"{file}:2: there is no setting 'brokr'")


@pytest.mark.parametrize("text", ["{", "[1]", "plain"])
def test_catalog_properties_that_are_no_json_object_are_one_sentence(text):
    problem = refused(environ={"LAKESTREAM_CATALOG__PROPERTIES": text})
    assert problem.startswith("LAKESTREAM_CATALOG__PROPERTIES: catalog.properties = ")
    assert "\n" not in problem


def test_the_defaults_are_those_of_the_parts_that_read_them():
    wal = load(environ={}).settings.wal
    flush, reclaim = FlushPolicy(), ReclaimPolicy()
    assert (wal.cost.flush_interval_ms, wal.cost.flush_bytes) == (flush.max_age_ms, flush.max_bytes)
    assert wal.max_uploads == flush.max_uploads
    assert wal.max_inflight_bytes == flush.max_inflight_bytes
    assert wal.answer_within_ms == flush.answer_within_ms
    assert wal.grace_period_ms == reclaim.grace_ms
    assert wal.evacuate_after_ms == reclaim.evacuate_after_ms


def test_the_options_of_the_store_are_all_but_its_place():
    environ = {"LAKESTREAM_STORE__SECRET_ACCESS_KEY": "s", "LAKESTREAM_STORE__REGION": "r"}
    options = load(environ=environ).settings.store.options()
    assert options == StoreOptions(region="r", secret_access_key=SecretStr("s"))
