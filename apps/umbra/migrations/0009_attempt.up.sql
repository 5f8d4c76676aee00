-- What a charge asks for, written down before it is asked for: however often it is repeated, it stays the same.
alter table umbra_attempt add column /*M! if not exists */ plan_code varchar(20);

alter table umbra_attempt add column /*M! if not exists */ card_token varchar(100);

alter table umbra_attempt add column /*M! if not exists */ amount bigint;

-- From when on the smaller plan counts.
alter table umbra_subscription add column /*M! if not exists */ next_plan_from_ms bigint;

update umbra_subscription set next_plan_from_ms = period_end_ms where next_plan_code is not null and next_plan_from_ms is null;
