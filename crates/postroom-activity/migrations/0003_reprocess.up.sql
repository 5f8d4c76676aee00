-- Ranges of domain events that an operator has mapped again. MariaDB alone reads the comment with an M.
create table /*M! if not exists */ user_activity_reprocess (
    reprocess_id varchar(36) not null primary key,
    -- The range, as JSON.
    filter varchar(2000) not null,
    -- The numbers of the first and the last entry of the range, and of the one that was looked at last.
    first_id bigint not null,
    until_id bigint not null,
    done_id bigint not null,
    inserted bigint not null,
    updated bigint not null,
    unchanged bigint not null,
    failed bigint not null,
    -- running | done | canceled
    state varchar(10) not null,
    created_by varchar(200) not null,
    created_at_ms bigint not null
);
