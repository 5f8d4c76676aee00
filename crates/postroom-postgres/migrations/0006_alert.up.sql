-- Rules that fire, and those whose end has not been told yet.
create table postroom.alert (
    rule text primary key,
    -- began | ended
    turn text not null,
    since timestamptz not null,
    is_told boolean not null,
    due_at timestamptz not null,
    error text
);
