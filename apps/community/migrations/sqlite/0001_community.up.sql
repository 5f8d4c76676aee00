create table community_member (
    member_id bigint not null primary key,
    nickname varchar(100) not null,
    joined_ms bigint not null
);

create table community_follow (
    follower_id bigint not null,
    followee_id bigint not null,
    followed_ms bigint not null,
    primary key (follower_id, followee_id)
);

-- No foreign key leads here: a comment or a like would lock the row of a busy post.
create table community_post (
    post_id integer primary key autoincrement,
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
);

create table community_like (
    post_id bigint not null,
    member_id bigint not null,
    liked_ms bigint not null,
    primary key (post_id, member_id)
);

create table community_comment (
    comment_id integer primary key autoincrement,
    post_id bigint not null,
    author_id bigint not null,
    body text not null,
    created_ms bigint not null,
    -- Null: the comment was not deleted.
    deleted_ms bigint null
);
create index community_comment_of_post on community_comment (post_id, comment_id);

-- The signed changes of comment counts: the truth from which the counts are made.
create table comment_change (
    event_id varchar(36) not null primary key,
    post_id bigint not null,
    delta integer not null,
    created_ms bigint not null,
    -- Null: no batch has added the change yet.
    batch_id bigint null
);
create index comment_change_unclaimed on comment_change (created_ms) where batch_id is null;
create index comment_change_of_post on comment_change (post_id, batch_id);
create index comment_change_of_batch on comment_change (batch_id);
create index comment_change_by_age on comment_change (created_ms);

create table count_batches (
    batch_id integer primary key autoincrement,
    -- When the batch took its changes.
    processed_to text not null,
    change_count bigint not null,
    post_count bigint not null,
    delta_sum bigint not null,
    created_ms bigint not null,
    -- Null: the tally may still hold changes of the batch.
    settled_ms bigint null
);
create index count_batches_unsettled on count_batches (batch_id) where settled_ms is null;

create table community_vote (
    vote_id integer primary key autoincrement,
    author_id bigint not null,
    question varchar(500) not null,
    closes_ms bigint not null,
    created_ms bigint not null,
    -- Null: ballots are taken.
    closed_ms bigint null
);
create table community_vote_option (
    vote_id bigint not null,
    option_number integer not null,
    label varchar(200) not null,
    -- Null: the vote is not closed.
    ballots bigint null,
    primary key (vote_id, option_number)
);
create table community_ballot (
    vote_id bigint not null,
    member_id bigint not null,
    option_number integer not null,
    cast_ms bigint not null,
    primary key (vote_id, member_id)
);
create index community_ballot_of_option on community_ballot (vote_id, option_number);

create table community_notification (
    notification_id integer primary key autoincrement,
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
);
create index community_notification_of_member on community_notification (member_id, notification_id);
create index community_notification_unread on community_notification (member_id, notification_id) where read_ms is null;
create index community_notification_by_age on community_notification (created_ms);

-- The stream of each member. The row is the lock under which its frames are numbered.
create table community_member_stream (
    member_id bigint not null primary key,
    seq bigint not null,
    unread bigint not null,
    is_muted boolean not null,
    -- Frames up to this number may have been removed by retention.
    pruned_seq bigint not null
);

-- The frames of a stream, numbered from 1 for each member.
create table community_member_event (
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
);
create index community_member_event_by_age on community_member_event (name, created_ms);
