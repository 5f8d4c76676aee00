-- Stored events that an operator sends to a sink again. MariaDB alone reads the comment with an M.
create table /*M! if not exists */ user_activity_redispatch (
    redispatch_id varchar(36) not null primary key,
    sink_type varchar(50) not null,
    -- Which events, as JSON.
    filter varchar(2000) not null,
    per_second bigint not null,
    -- The row that was sent last, and the last one to send.
    sent_until_id bigint not null,
    until_id bigint not null,
    sent bigint not null,
    -- running | done | canceled
    state varchar(10) not null,
    created_by varchar(200) not null,
    created_at_ms bigint not null
);
