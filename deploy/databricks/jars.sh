#!/bin/bash
# Fetch what a Spark needs to rewrite Iceberg tables to where its driver looks before it starts.
set -euo pipefail
FOLDER=${JARS_FOLDER:-/databricks/jars}
MAVEN=${JARS_MAVEN:?set it to the address of a Maven repository}

fetch() { # GROUP ARTIFACT VERSION
  local jar=$2-$3.jar
  curl --fail --silent --show-error --location --retry 5 \
    --output "$FOLDER/$jar" "$MAVEN/${1//.//}/$2/$3/$jar"
}

fetch org.apache.iceberg iceberg-spark-runtime-4.1_2.13 1.12.0
fetch org.apache.iceberg iceberg-aws-bundle 1.12.0
fetch org.postgresql postgresql 42.7.8
