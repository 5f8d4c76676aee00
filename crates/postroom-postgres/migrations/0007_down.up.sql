-- What a route cannot reach, and since when; gone when it can.
create table postroom.outbox_down (
    route text not null,
    shard integer not null,
    -- delivery | feed
    side text not null,
    reason text not null,
    since timestamptz not null,
    seen_at timestamptz not null,
    primary key (route, shard, side)
);
