"""`python -m lakestream_spark` is the command `lakestream`."""

from lakestream_spark.cli import main

if __name__ == "__main__":
    main()
