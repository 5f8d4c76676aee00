select max(n) from postroom.outbox_tick
