"""`lakestream demo`: a shop's stream becomes a table in front of you, and goes on until Ctrl-C.

`ready` says what is missing before anything starts, `platform` is `lakestream up` as a process of
its own, `shop` invents orders and payments, `traffic` sends them, `chapters` do what a user would
do next and `story` remembers what was told, `screen` shows it, `command` puts all of it together.

What always holds: the demo uses only what a user has, a Kafka client, the commands' own functions
and the status page; it ends with code 0 only if every chapter of the story was told.
"""
