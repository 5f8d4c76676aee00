-- Removes ticks that no cursor needs any more. Tick 0 stays, every new route begins there, and so does the newest, the
-- next one is built on it. An hour is kept, so that the lower bounds of long transactions stay tight: looser bounds are
-- still right, they only cost a longer scan. Only the lowest $1 are looked at, so young ticks cost nothing.
delete from postroom.outbox_tick
where n in (
    select n
    from (
        select
            n,
            at
        from postroom.outbox_tick
        where n > 0
        order by n
        limit $1
    ) oldest
    where n < (select max(n) from postroom.outbox_tick)
        and n < coalesce(
            (
                select min(least(split_part(position, ':', 1)::bigint, split_part(handled_to, ':', 1)::bigint))
                from postroom.outbox_cursor
            ),
            9223372036854775807
        )
        and at < clock_timestamp() - interval '1 hour'
)
