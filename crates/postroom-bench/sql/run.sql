-- A row while a bench runs: above which entry of the log its own begin. Found at the start, it tells of a bench that runs or
-- was killed.
create table if not exists bench_run (
    floor bigint not null
);
