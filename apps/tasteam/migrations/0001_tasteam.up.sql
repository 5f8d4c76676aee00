-- MariaDB commits at each statement, and it alone reads the comments with an M: a migration that broke off is run again.

create table /*M! if not exists */ tasteam_sequence (
    name varchar(20) not null primary key,
    last_id bigint not null
);

insert into tasteam_sequence (name, last_id)
select names.name, 0
from (select 'restaurant' as name union all select 'group' union all select 'review') as names
where not exists (select 1 from tasteam_sequence as known where known.name = names.name);

create table /*M! if not exists */ tasteam_restaurant (
    restaurant_id bigint not null primary key,
    name varchar(100) not null
);

create table /*M! if not exists */ tasteam_group (
    group_id bigint not null primary key,
    name varchar(100) not null
);

create table /*M! if not exists */ tasteam_group_member (
    group_id bigint not null,
    member_id bigint not null,
    join_type varchar(20) not null,
    joined_at_ms bigint not null,
    primary key (group_id, member_id)
);

create table /*M! if not exists */ tasteam_review (
    review_id bigint not null primary key,
    restaurant_id bigint not null,
    group_id bigint,
    subgroup_id bigint,
    member_id bigint not null,
    content varchar(2000) not null,
    has_image bigint not null
);
