"""`lakestream sql` on a running broker: table and tail as one, whatever was done to the table."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest
from pyiceberg.table import Table
from pyiceberg.types import StringType

from tests.support.delete_files import delete_positions
from tests.support.embedded import catalog_spec
from tests.support.reading import Lake, Place, dense, lake_in
from tests.support.shell import Shell


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    # A folder that looks like a pattern: its files are named, and not searched for.
    with lake_in(tmp_path_factory.mktemp("lake[0]")) as found:
        yield found


@pytest.fixture
def shell(lake: Lake) -> Shell:
    return Shell(["--data", lake.data])


@pytest.fixture
def topic(lake: Lake) -> str:
    name = f"t{uuid4().hex[:12]}"
    lake.create(name)
    return name


def send(lake: Lake, topic: str, first: int, after: int, partition: int = 0) -> None:
    values = [b'{"n": %d, "who": "k%d"}' % (n, n % 3) for n in range(first, after)]
    lake.send(topic, values, partition=partition)


def rows(shell: Shell, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shell.json("sql", query)["rows"]
    return found


def places(shell: Shell, topic: str) -> list[Place]:
    found = rows(shell, f"SELECT __partition AS p, __offset AS o FROM {topic} ORDER BY ALL")
    return [(row["p"], row["o"]) for row in found]


def load(lake: Lake, topic: str) -> Table:
    with closing(catalog_spec(lake.folder).open()) as catalog:
        return catalog.load_table(("streams", topic))


def test_a_topic_is_asked_before_it_has_a_table_with_a_tail_and_without(
    lake: Lake, shell: Shell, topic: str
) -> None:
    assert rows(shell, f"SELECT * FROM {topic}") == []
    send(lake, topic, 0, 30)
    assert places(shell, topic) == dense(30)
    lake.commit()
    send(lake, topic, 30, 50)
    assert places(shell, topic) == dense(50)
    lake.commit()
    lake.forget_wal()
    assert places(shell, topic) == dense(50)
    assert places(shell, f"lake.streams.{topic}") == dense(50)
    assert places(shell, topic.upper()) == dense(50)


def test_both_halves_have_the_same_columns_with_the_same_values(
    lake: Lake, shell: Shell, topic: str
) -> None:
    send(lake, topic, 0, 1)
    lake.commit()
    send(lake, topic, 1, 2)
    old, new = rows(shell, f"SELECT * FROM {topic} ORDER BY __offset")
    assert old == {
        "__partition": 0,
        "__offset": 0,
        "__timestamp": "2023-11-14T22:13:20+00:00",
        "__timestamp_type": 0,
        "__key": "k",
        "__headers": [{"key": "h", "value": "1"}, {"key": "none", "value": None}],
        "__value": '{"n": 0, "who": "k0"}',
        "__record": None,
    }
    assert new == {**old, "__offset": 1, "__value": '{"n": 1, "who": "k1"}'}
    described = rows(shell, f"DESCRIBE {topic}")
    assert {row["column_name"]: row["column_type"] for row in described} == {
        "__partition": "INTEGER",
        "__offset": "BIGINT",
        "__timestamp": "TIMESTAMP WITH TIME ZONE",
        "__timestamp_type": "INTEGER",
        "__key": "BLOB",
        "__headers": 'STRUCT("key" VARCHAR, "value" BLOB)[]',
        "__value": "BLOB",
        "__record": "BLOB",
    }


def test_fields_of_json_are_added_up_over_both_halves_and_two_topics_joined(
    lake: Lake, shell: Shell, topic: str
) -> None:
    other = f'"{topic}.other-one"'
    lake.create(other.strip('"'))
    send(lake, topic, 0, 30)
    lake.commit()
    send(lake, topic, 30, 60)
    send(lake, other.strip('"'), 0, 2)
    found = rows(
        shell,
        f"""
        WITH known AS (SELECT DISTINCT decode(__value)->>'$.who' AS who FROM {other})
        SELECT who, sum((decode(a.__value)->>'$.n')::BIGINT) AS total, count(*) AS "how many"
        FROM {topic} a JOIN known ON (decode(a.__value)->>'$.who') = who
        WHERE a.__offset IN (SELECT __offset FROM streams.{topic})
        GROUP BY ALL ORDER BY who
        """,
    )
    assert found == [
        {"who": "k0", "total": sum(range(0, 60, 3)), "how many": 20},
        {"who": "k1", "total": sum(range(1, 60, 3)), "how many": 20},
    ]


def test_every_offset_is_there_once_while_records_come_and_are_committed(
    lake: Lake, shell: Shell
) -> None:
    topic = f"t{uuid4().hex[:12]}"
    lake.create(topic, 2)
    acked = {0: 0, 1: 0}

    def live() -> None:
        for turn in range(3):
            for partition in (0, 1):
                send(lake, topic, 100 * turn, 100 * (turn + 1), partition)
                acked[partition] += 100
            lake.commit()

    with ThreadPoolExecutor(1) as pool:
        living = pool.submit(live)
        while not living.done():
            before = dict(acked)
            found = places(shell, topic)
            ends = Counter(partition for partition, _ in found)
            assert found == dense(ends[0], ends[1])
            assert all(ends[partition] >= count for partition, count in before.items())
        living.result()
    assert places(shell, topic) == dense(300, 300)


def test_rows_that_others_deleted_are_gone(lake: Lake, shell: Shell, topic: str) -> None:
    send(lake, topic, 0, 30)
    lake.commit()
    files = [task.file for task in load(lake, topic).scan().plan_files()]
    delete_positions(load(lake, topic), files[0].file_path, [1, 3])
    send(lake, topic, 30, 40)
    kept = places(shell, topic)
    assert len(kept) == len(set(kept)) == 38
    assert kept == sorted((0, row["__offset"]) for row in stored(lake, topic)) + dense(40)[30:]
    load(lake, topic).delete("__offset >= 20 and __offset < 25")
    assert places(shell, topic) == [place for place in kept if not 20 <= place[1] < 25]


def test_columns_that_others_added_filled_and_renamed_are_there(
    lake: Lake, shell: Shell, topic: str
) -> None:
    send(lake, topic, 0, 10)
    lake.commit()
    with load(lake, topic).update_schema() as update:
        update.add_column("note", StringType())
    fifth = load(lake, topic).scan("__offset = 5").to_arrow()
    noted = fifth.set_column(fifth.schema.get_field_index("note"), "note", [["seen"]])
    load(lake, topic).overwrite(noted, "__offset = 5")
    with load(lake, topic).update_schema() as update:
        update.rename_column("note", "remark")
    send(lake, topic, 10, 15)
    lake.commit()
    send(lake, topic, 15, 20)
    assert places(shell, topic) == dense(20)
    found = rows(shell, f"SELECT __offset, remark FROM {topic} WHERE remark IS NOT NULL")
    assert found == [{"__offset": 5, "remark": "seen"}]


def stored(lake: Lake, topic: str) -> list[dict[str, Any]]:
    """As pyiceberg reads the table by itself."""
    found: list[dict[str, Any]] = load(lake, topic).scan().to_arrow().to_pylist()
    return found


def test_only_what_is_named_is_opened(lake: Lake, shell: Shell, topic: str) -> None:
    broken = f"t{uuid4().hex[:12]}"
    lake.create(broken)
    before = lake.segments()
    send(lake, broken, 0, 5)
    (lost,) = lake.segments() - before
    lost.unlink()
    send(lake, topic, 0, 5)
    try:
        assert places(shell, topic) == dense(5)
        assert {topic, broken} <= {row["name"] for row in rows(shell, "SHOW TABLES")}
        assert "data loss" in shell("sql", f"SELECT * FROM {broken}", code=5)
    finally:
        lake.drop(broken)


def test_answers_are_printed_as_a_grid_as_csv_and_as_json(
    lake: Lake, shell: Shell, topic: str
) -> None:
    lake.send(topic, [b"\xff\x00", "für, alle".encode(), b"a\n\x1b[31m"])
    query = f"SELECT __offset AS n, __value AS v, NULL AS x FROM {topic} ORDER BY n"
    assert shell("sql", query).splitlines() == [
        "n  v            x   ",
        "0  base64:/wA=  null",
        "1  für, alle    null",
        r"2  a\n\x1b[31m  null",
    ]
    query = query.replace("ORDER", "WHERE n < 2 ORDER")
    assert shell("sql", query, "--csv") == 'n,v,x\n0,base64:/wA=,\n1,"für, alle",\n'
    assert shell.json("sql", query) == {
        "columns": ["n", "v", "x"],
        "rows": [
            {"n": 0, "v": {"base64": "/wA="}, "x": None},
            {"n": 1, "v": "für, alle", "x": None},
        ],
        "left_out": False,
    }
    many = "SELECT n, n AS n FROM range(1500) AS t(n)"
    assert len(shell("sql", many).splitlines()) == 1001
    assert len(shell("sql", many, "--limit", "0").splitlines()) == 1501
    assert len(shell("sql", many, "--csv").splitlines()) == 1501
    assert shell.json("sql", many, "--limit", "1") == {
        "columns": ["n", "n_1"],
        "rows": [{"n": 0, "n_1": 0}],
        "left_out": True,
    }


@pytest.mark.parametrize(
    ("query", "code", "sentence"),
    [
        ("SELEC 1", 2, 'Parser Error: syntax error at or near "SELEC"'),
        ("", 2, "the query is empty: give one, such as"),
        ("SELECT 1; SELECT 2", 2, "answers one SELECT and changes nothing"),
        ("INSERT INTO orders VALUES (1)", 2, "answers one SELECT and changes nothing"),
        ("COPY orders TO 'x.csv'", 2, "answers one SELECT and changes nothing"),
        ("SELECT * FROM ordres", 2, "there is no topic ordres; did you mean orders?"),
        ("SELECT * FROM streams.ordres", 2, "did you mean streams.orders?"),
        ("SELECT * FROM zzz", 2, "there is no topic zzz; `lakestream topic list` shows all"),
        ("SELECT nothing FROM orders", 2, 'Referenced column "nothing" not found'),
        ("SELECT * FROM orders, Orders", 2, "SQL does not tell Orders from another topic"),
        ("SELECT error('oh') FROM range(5)", 2, "oh"),
        ("SELECT decode('\\xff'::BLOB)", 2, "Use try(decode(BLOB))"),
    ],
)
def test_wrong_queries_get_a_sentence(
    two_topics: Shell, query: str, code: int, sentence: str
) -> None:
    complained = two_topics("sql", query, code=code)
    assert sentence in complained
    assert len(complained.splitlines()) == 1


@pytest.fixture(scope="module")
def two_topics(lake: Lake) -> Shell:
    """Topics that differ in capitals only."""
    shell = Shell(["--data", lake.data])
    for name in ("orders", "Orders"):
        lake.create(name)
    return shell


def test_json_and_csv_are_not_given_together(shell: Shell) -> None:
    assert "not both" in shell("sql", "SELECT 1", "--json", "--csv", code=2)
