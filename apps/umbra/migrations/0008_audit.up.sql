create table /*M! if not exists */ umbra_audit (
    outbox_event_id varchar(36) not null unique,
    event_type varchar(100) not null,
    aggregate_type varchar(100) not null,
    aggregate_id varchar(100) not null,
    payload text not null,
    occurred_at_ms bigint not null
);

create index /*M! if not exists */ umbra_audit_aggregate on umbra_audit (aggregate_id, outbox_event_id);
