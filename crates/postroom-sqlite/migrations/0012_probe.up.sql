-- When the destination is asked again, by the database's clock. Null: within seconds, as its relay decides.
alter table postroom_outbox_down add column probe_at text;
