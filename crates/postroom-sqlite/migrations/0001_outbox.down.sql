drop table postroom_outbox_signal;
drop table postroom_outbox_cursor;
drop table postroom_outbox;
