-- Locks the rows it removes and no gaps between them.
set transaction isolation level read committed
