# An S3 server over a folder: versitygw, the one that the tests run against, built as they build it.
FROM golang:1.26-bookworm AS build
RUN go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

FROM debian:bookworm-slim
COPY --from=build /go/bin/versitygw /usr/local/bin/versitygw
# A folder at the top is a bucket. A new volume takes its content and its owner from here.
RUN groupadd --gid 10001 s3 \
 && useradd --uid 10001 --gid 10001 --no-log-init s3 \
 && install --directory --owner 10001 --group 10001 /data /data/lakestream
USER 10001:10001
EXPOSE 7070
# versitygw reads its secret from the environment only.
ENTRYPOINT ["/bin/sh", "-c", "ROOT_SECRET_KEY=\"$(cat \"$ROOT_SECRET_KEY_FILE\")\" exec versitygw --quiet --port :7070 posix /data"]
