do $$
begin
  -- "if not exists" alone races between two processes, hence the lock.
  if to_regclass('postroom.migration') is null then
    perform pg_advisory_xact_lock(7382914);
    create schema if not exists postroom;
    create table if not exists postroom.migration (
      owner text not null,
      number int not null,
      name text not null,
      applied_at timestamptz not null default now(),
      primary key (owner, number)
    );
  end if;
end
$$
