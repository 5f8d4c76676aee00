-- Each of the sequencer's two looks must be a read view of its own. Under repeatable read they would share one.
set session transaction isolation level read committed
