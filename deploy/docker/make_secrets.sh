#!/bin/sh
# Make the secrets of compose.yaml, each in a file that only its services see. What is there stays.
set -eu
folder=${1:-"$(dirname "$0")/secrets"}
mkdir -p "$folder"
chmod 700 "$folder"

# A file is mounted into containers that run as other users, so it is readable; its folder is not.
put() {
    [ -e "$folder/$1" ] || (umask 022 && printf '%s' "$2" > "$folder/$1")
}

random() {
    od -An -N24 -tx1 /dev/urandom | tr -d ' \n'
}

put postgres_password "$(random)"
put s3_secret_key "$(random)"
put grafana_password "$(random)"
put admin_token "$(random)"
put metadata_url "postgresql://lakestream:$(cat "$folder/postgres_password")@postgres/lakestream"
put catalog_properties "{\"s3.endpoint\": \"http://s3:7070\", \"s3.region\": \"us-east-1\", \"s3.access-key-id\": \"lakestream\", \"s3.secret-access-key\": \"$(cat "$folder/s3_secret_key")\"}"
