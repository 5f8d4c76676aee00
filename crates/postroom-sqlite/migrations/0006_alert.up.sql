-- Rules that fire, and those whose end has not been told yet.
create table postroom_alert (
    rule text not null primary key,
    -- began | ended
    turn text not null,
    since text not null,
    is_told integer not null,
    due_at text not null,
    error text
) strict, without rowid;
