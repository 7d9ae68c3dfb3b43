"""spark-submit entry: compare every row of a topic's table with what was committed.

spark-submit --properties-file pipelines/spark.conf \\
    pipelines/verify.py TOPIC --data DIR_OR_URL [--conf FILE] [--json]
"""

import click

from lakestream_spark.cli.exits import run_entry
from lakestream_spark.cli.options import Loaded
from lakestream_spark.cli.verify import run_verify, tell, verify_options
from lakestream_spark.core.logs import configure
from lakestream_spark.settings.storage import catalog_spec
from lakestream_spark.spark.session import submitted_session
from lakestream_spark.verify.pinned import Asked


@click.command()
@verify_options
def verify(
    loaded: Loaded,
    topic: str,
    partition: int | None,
    first: int,
    after: int | None,
    as_json: bool,
) -> None:
    """Compare every row of a topic over a range of offsets, with the session of spark-submit."""
    log = loaded.settings.log
    configure(level=log.level, form=log.format, context={"job": "verify"})
    asked = Asked(partition=partition, first=first, next=after)
    with submitted_session("lakestream-verify", catalog_spec(loaded.settings)) as session:
        tell(run_verify(loaded.settings, topic, asked, session=session), as_json=as_json)


if __name__ == "__main__":
    run_entry(verify, name="verify.py")
