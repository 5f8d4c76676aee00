-- What a route cannot reach, and since when; gone when it can.
create table postroom_outbox_down (
    route text not null,
    shard integer not null,
    -- delivery | feed
    side text not null,
    reason text not null,
    since text not null,
    seen_at text not null,
    primary key (route, shard, side)
) strict, without rowid;
