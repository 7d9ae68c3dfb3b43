"""All settings: one typed tree, loaded from flags, environment and a TOML file.

Owns the tree (`tree`), where values come from (`sources`), how they are put together (`load`) and
the documented file made from it (`document`). What always holds: a flag beats the environment,
which beats the file, which beats the default; a key or value that is wrong is named with the place
it came from; a secret is never shown. Only `app` and `cli` import this package: every other part
gets its options as arguments.
"""

from lakestream_spark.settings.load import Loaded, load
from lakestream_spark.settings.sources import Entry
from lakestream_spark.settings.tree import Settings

__all__ = ["Entry", "Loaded", "Settings", "load"]
