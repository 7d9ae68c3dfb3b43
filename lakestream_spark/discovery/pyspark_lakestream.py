"""Where Spark finds the data source `lakestream` by itself: it looks at modules named pyspark_….

In the wheel this file lies beside the package.
"""

from lakestream_spark.reading import DefaultSource

__all__ = ["DefaultSource"]
