"""The yardstick: a refund as a durable workflow of plain Temporal, as a careful team would write it by hand."""
