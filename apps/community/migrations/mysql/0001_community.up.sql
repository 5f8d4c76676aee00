create table /*M! if not exists */ community_member (
    member_id bigint not null primary key,
    nickname varchar(100) not null,
    joined_ms bigint not null
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

create table /*M! if not exists */ community_follow (
    follower_id bigint not null,
    followee_id bigint not null,
    followed_ms bigint not null,
    primary key (follower_id, followee_id)
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- No foreign key leads here: a comment or a like would lock the row of a busy post.
create table /*M! if not exists */ community_post (
    post_id bigint not null auto_increment primary key,
    author_id bigint not null,
    title varchar(200) not null,
    body text not null,
    -- Comments of all changes that a batch has added.
    comment_count bigint not null default 0,
    -- The part of comment_count whose change rows were pruned.
    comment_base bigint not null default 0,
    -- The last batch that changed comment_count.
    batch_id bigint null,
    like_count bigint not null default 0,
    created_ms bigint not null
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

create table /*M! if not exists */ community_like (
    post_id bigint not null,
    member_id bigint not null,
    liked_ms bigint not null,
    primary key (post_id, member_id)
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

create table /*M! if not exists */ community_comment (
    comment_id bigint not null auto_increment primary key,
    post_id bigint not null,
    author_id bigint not null,
    body text not null,
    created_ms bigint not null,
    -- Null: the comment was not deleted.
    deleted_ms bigint null
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
create index /*M! if not exists */ community_comment_of_post on community_comment (post_id, comment_id);

-- The signed changes of comment counts: the truth from which the counts are made.
create table /*M! if not exists */ comment_change (
    event_id varchar(36) not null primary key,
    post_id bigint not null,
    delta integer not null,
    created_ms bigint not null,
    -- Null: no batch has added the change yet.
    batch_id bigint null
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
create index /*M! if not exists */ comment_change_unclaimed on comment_change (batch_id, created_ms);
create index /*M! if not exists */ comment_change_of_post on comment_change (post_id, batch_id);
create index /*M! if not exists */ comment_change_by_age on comment_change (created_ms);

create table /*M! if not exists */ count_batches (
    batch_id bigint not null auto_increment primary key,
    -- When the batch took its changes.
    processed_to datetime(6) not null,
    change_count bigint not null,
    post_count bigint not null,
    delta_sum bigint not null,
    created_ms bigint not null,
    -- Null: the tally may still hold changes of the batch.
    settled_ms bigint null
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
create index /*M! if not exists */ count_batches_unsettled on count_batches (settled_ms, batch_id);

create table /*M! if not exists */ community_vote (
    vote_id bigint not null auto_increment primary key,
    author_id bigint not null,
    question varchar(500) not null,
    closes_ms bigint not null,
    created_ms bigint not null,
    -- Null: ballots are taken.
    closed_ms bigint null
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
create table /*M! if not exists */ community_vote_option (
    vote_id bigint not null,
    option_number integer not null,
    label varchar(200) not null,
    -- Null: the vote is not closed.
    ballots bigint null,
    primary key (vote_id, option_number)
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
create table /*M! if not exists */ community_ballot (
    vote_id bigint not null,
    member_id bigint not null,
    option_number integer not null,
    cast_ms bigint not null,
    primary key (vote_id, member_id)
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
create index /*M! if not exists */ community_ballot_of_option on community_ballot (vote_id, option_number);

create table /*M! if not exists */ community_notification (
    notification_id bigint not null auto_increment primary key,
    event_id varchar(36) not null,
    member_id bigint not null,
    type varchar(20) not null,
    message varchar(1000) not null,
    ref_id bigint not null,
    actor_id bigint not null,
    created_ms bigint not null,
    -- Null: unread.
    read_ms bigint null,
    unique (event_id, member_id)
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
create index /*M! if not exists */ community_notification_of_member on community_notification (member_id, notification_id);
create index /*M! if not exists */ community_notification_unread on community_notification (member_id, read_ms, notification_id);
create index /*M! if not exists */ community_notification_by_age on community_notification (created_ms);

-- The stream of each member. The row is the lock under which its frames are numbered.
create table /*M! if not exists */ community_member_stream (
    member_id bigint not null primary key,
    seq bigint not null,
    unread bigint not null,
    is_muted boolean not null,
    -- Frames up to this number may have been removed by retention.
    pruned_seq bigint not null
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- The frames of a stream, numbered from 1 for each member.
create table /*M! if not exists */ community_member_event (
    member_id bigint not null,
    seq bigint not null,
    event_id varchar(36) not null,
    -- notification | chat | unread
    name varchar(20) not null,
    data text not null,
    is_silent boolean not null,
    created_ms bigint not null,
    primary key (member_id, seq),
    unique (member_id, event_id)
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
create index /*M! if not exists */ community_member_event_by_age on community_member_event (name, created_ms);
