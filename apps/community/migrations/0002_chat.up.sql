-- MariaDB commits at each statement, and it alone reads the comments with an M: a migration that broke off is run again. MySQL
-- and MariaDB read the comments with an exclamation mark: texts are Unicode, and ids that differ in case are two ids.

create table /*M! if not exists */ community_chat_sequence (
    name varchar(20) not null primary key,
    last_id bigint not null
) /*! default character set utf8mb4 collate utf8mb4_bin */;

insert into community_chat_sequence (name, last_id)
select names.name, 0
from (select 'room' as name) as names
where not exists (select 1 from community_chat_sequence as known where known.name = names.name);

-- A room, with the number of its last entry. The row is the lock under which entries are numbered.
create table /*M! if not exists */ community_room (
    room_id bigint not null primary key,
    name varchar(100) not null,
    owner_id bigint not null,
    seq bigint not null,
    -- Entries up to this number were removed by retention.
    horizon bigint not null,
    -- When the last entry was made. No entry is older than the one before it.
    last_ms bigint not null,
    created_ms bigint not null
) /*! default character set utf8mb4 collate utf8mb4_bin */;

create table /*M! if not exists */ community_room_member (
    room_id bigint not null,
    member_id bigint not null,
    -- The member sees entries above this number.
    joined_seq bigint not null,
    joined_ms bigint not null,
    -- Null: the member is in the room.
    left_ms bigint null,
    primary key (room_id, member_id)
);
create index /*M! if not exists */ community_room_member_by_member on community_room_member (member_id, room_id);

-- The entries of all rooms, numbered from 1 in each room: the live order, from which connections resume.
create table /*M! if not exists */ community_chat_send (
    room_id bigint not null,
    seq bigint not null,
    -- message | edit | delete | enter | leave
    kind varchar(10) not null,
    -- The member who made the entry.
    sender_id bigint not null,
    -- The message: the number of its first entry. Null for enter and leave.
    message_id bigint null,
    -- The member who entered or left. Null for messages.
    member_id bigint null,
    client_msg_id varchar(64) null,
    event_id varchar(36) not null,
    -- Null for other kinds than message and edit, and for all entries of a message that was deleted.
    body text null,
    created_ms bigint not null,
    primary key (room_id, seq),
    -- A message that is sent again is the same message.
    unique (room_id, sender_id, client_msg_id)
) /*! default character set utf8mb4 collate utf8mb4_bin */;
create index /*M! if not exists */ community_chat_send_of_message on community_chat_send (room_id, message_id, seq);
create index /*M! if not exists */ community_chat_send_by_age on community_chat_send (created_ms);

-- Entries that are sent and not stored yet.
create table /*M! if not exists */ community_chat_unstored (
    room_id bigint not null,
    seq bigint not null,
    primary key (room_id, seq)
);

-- History: each message as it stands.
create table /*M! if not exists */ community_chat_message (
    room_id bigint not null,
    message_id bigint not null,
    -- The newest entry of the message that is stored.
    seq bigint not null,
    sender_id bigint not null,
    client_msg_id varchar(64) not null,
    event_id varchar(36) not null,
    -- Null: the message was deleted.
    body text null,
    sent_ms bigint not null,
    edited_ms bigint null,
    primary key (room_id, message_id)
) /*! default character set utf8mb4 collate utf8mb4_bin */;
create index /*M! if not exists */ community_chat_message_by_age on community_chat_message (sent_ms);
