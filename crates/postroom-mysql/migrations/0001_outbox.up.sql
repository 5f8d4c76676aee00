-- Every statement can be repeated: the server commits at each DDL, so a migration that broke off half-way is run again.
--
-- Text is compared byte for byte with its trailing spaces: 'a' and 'a ' are two keys. MariaDB and MySQL have no such
-- (NO PAD) collation in common, hence the version comments: each server reads its own name and skips the other's.

-- Where writers insert. No index but the key: this is what a writer's transaction pays for.
create table if not exists postroom_incoming (
  id bigint not null auto_increment,
  event_id char(36) character set ascii collate ascii_bin not null,
  event_type varchar(200) not null,
  source varchar(200) not null default '',
  aggregate_type varchar(200) not null,
  aggregate_id varchar(200) not null,
  payload longtext not null,
  headers longtext not null default ('{}'),
  occurred_at datetime(6) not null default (utc_timestamp(6)),
  created_at datetime(6) not null default (utc_timestamp(6)),
  primary key (id),
  -- The gate for all text that enters: the log and its copies are not checked again.
  constraint postroom_incoming_payload check (json_valid(payload)),
  constraint postroom_incoming_headers check (json_valid(headers)),
  constraint postroom_incoming_event_id check (
    event_id like '________-____-____-____-____________'
    and length(unhex(replace(event_id, '-', ''))) <=> 16
  )
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- The log: append-only, numbered without gaps by the sequencer.
create table if not exists postroom_outbox (
  id bigint not null,
  incoming_id bigint not null,
  event_id char(36) character set ascii collate ascii_bin not null,
  event_type varchar(200) not null,
  source varchar(200) not null default '',
  aggregate_type varchar(200) not null,
  aggregate_id varchar(200) not null,
  payload longtext not null,
  headers longtext not null default ('{}'),
  occurred_at datetime(6) not null default (utc_timestamp(6)),
  created_at datetime(6) not null default (utc_timestamp(6)),
  primary key (id),
  -- Not unique: a unique index would make the sequencer fail on what a writer repeated.
  key postroom_outbox_event_id (event_id)
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- Who numbers. next_seq is the last number given; durable_seq the last whose commit is known to be on disk.
create table if not exists postroom_sequencer (
  shard int not null,
  owner varchar(64) not null,
  epoch bigint not null,
  next_seq bigint not null,
  durable_seq bigint not null,
  expires_at datetime(6) not null,
  primary key (shard)
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

insert ignore into postroom_sequencer (shard, owner, epoch, next_seq, durable_seq, expires_at)
values (0, 'nobody', 0, 0, 0, '1970-01-01 00:00:00');

create table if not exists postroom_outbox_cursor (
  route varchar(200) not null,
  shard int not null,
  position varchar(100) not null,
  epoch bigint not null default 0,
  owner varchar(200) null,
  expires_at datetime(6) null,
  is_paused boolean not null default false,
  settled_at datetime(6) null,
  delivered bigint not null default 0,
  primary key (route, shard)
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

create table if not exists postroom_outbox_signal (
  id int not null,
  version bigint not null default 0,
  primary key (id)
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

insert ignore into postroom_outbox_signal (id, version) values (1, 0);

drop trigger if exists postroom_incoming_immutable;
create trigger postroom_incoming_immutable before update on postroom_incoming for each row
  signal sqlstate '45000' set message_text = 'an event is immutable: emit a new one, do not change postroom_incoming';

drop trigger if exists postroom_outbox_immutable;
create trigger postroom_outbox_immutable before update on postroom_outbox for each row
  signal sqlstate '45000' set message_text = 'an event is immutable: emit a new one, do not change postroom_outbox';

-- For other languages: emits in the caller's transaction and selects the event's id.
-- Lock or change the aggregate first, as in Rust. headers, event_id and source may be null.
drop procedure if exists postroom_emit;
create procedure postroom_emit(
  in event_type_in longtext character set utf8mb4 collate utf8mb4_bin,
  in aggregate_type_in longtext character set utf8mb4 collate utf8mb4_bin,
  in aggregate_id_in longtext character set utf8mb4 collate utf8mb4_bin,
  in payload_in longtext character set utf8mb4 collate utf8mb4_bin,
  in headers_in longtext character set utf8mb4 collate utf8mb4_bin,
  in event_id_in longtext character set utf8mb4 collate utf8mb4_bin,
  in source_in longtext character set utf8mb4 collate utf8mb4_bin
)
  sql security invoker
begin
  declare nul char(1) character set utf8mb4 collate utf8mb4_bin default char(0 using utf8mb4);
  declare wrong varchar(128) character set utf8mb4 collate utf8mb4_bin default null;
  declare header_names longtext character set utf8mb4 collate utf8mb4_bin;
  declare header_texts longtext character set utf8mb4 collate utf8mb4_bin;
  declare pair longtext character set utf8mb4 collate utf8mb4_bin;
  declare header int default 0;
  declare header_bytes int default 0;
  declare hex_time varchar(12) character set ascii;
  declare hex_random varchar(20) character set ascii;

  set headers_in = coalesce(headers_in, '{}');
  set source_in = coalesce(source_in, '');

  set wrong = case
    when coalesce(octet_length(event_type_in), 0) = 0 then 'event_type is empty; give 1 to 200 bytes'
    when octet_length(event_type_in) > 200
      then concat('event_type has ', octet_length(event_type_in), ' bytes, the limit is 200')
    when event_type_in regexp '[^A-Za-z0-9._/\\-]'
      then 'event_type may hold letters, digits, ''.'', ''-'', ''_'' and ''/'' only'
    when coalesce(octet_length(aggregate_type_in), 0) = 0 then 'aggregate_type is empty; give 1 to 200 bytes'
    when octet_length(aggregate_type_in) > 200
      then concat('aggregate_type has ', octet_length(aggregate_type_in), ' bytes, the limit is 200')
    when instr(aggregate_type_in, nul) > 0 then 'aggregate_type contains a NUL character; remove it'
    when coalesce(octet_length(aggregate_id_in), 0) = 0 then 'aggregate_id is empty; give 1 to 200 bytes'
    when octet_length(aggregate_id_in) > 200
      then concat('aggregate_id has ', octet_length(aggregate_id_in), ' bytes, the limit is 200')
    when instr(aggregate_id_in, nul) > 0 then 'aggregate_id contains a NUL character; remove it'
    when octet_length(source_in) > 200
      then concat('source has ', octet_length(source_in), ' bytes, the limit is 200')
    when instr(source_in, nul) > 0 then 'source contains a NUL character; remove it'
    when payload_in is null then 'payload is null; give JSON text (the JSON null is ''null'')'
    when octet_length(payload_in) > 1000000
      then concat('payload has ', octet_length(payload_in), ' bytes, the limit is 1000000; store it elsewhere')
    when not json_valid(payload_in)
      then 'payload is not JSON, or is nested deeper than the server takes (MariaDB 31, MySQL 100)'
    -- An odd number of backslashes before u0000 is the NUL character; an even number is text about it. Not by a regular
    -- expression: over many of them it runs into the server's limit.
    when instr(payload_in, '\\u0000') > 0
      and instr(replace(payload_in, '\\\\', ''), '\\u0000') > 0
      then 'payload contains the NUL character \\u0000; remove or encode it'
    -- Six bytes for each one of 16384 is the longest that any legal headers can be written.
    when octet_length(headers_in) > 131072
      then concat('headers have ', octet_length(headers_in), ' bytes of JSON; the limit is 16384 without the JSON')
    when not json_valid(headers_in) then 'headers are not JSON; give an object of strings'
    when json_type(headers_in) <> 'OBJECT' then 'headers are not an object; give an object of strings'
    when octet_length(event_id_in) <> 36
      or event_id_in not regexp '^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$'
      then 'event_id is not a UUID of the form 8-4-4-4-12'
    else null
  end;

  if wrong is null then
    set header_names = json_keys(headers_in);
    set header_texts = json_extract(headers_in, '$.*');
  end if;
  while wrong is null and header < json_length(header_names) do
    set pair = concat(
      json_unquote(json_extract(header_names, concat('$[', header, ']'))),
      json_unquote(json_extract(header_texts, concat('$[', header, ']')))
    );
    set header_bytes = header_bytes + octet_length(pair);
    set wrong = case
      when json_type(json_extract(header_texts, concat('$[', header, ']'))) <> 'STRING'
        then 'headers hold a value that is not a string; give an object of strings'
      when instr(pair, nul) > 0 then 'headers contain a NUL character; remove it'
      when header_bytes > 16384 then 'headers have more than 16384 bytes together; move data into the payload'
      else null
    end;
    set header = header + 1;
  end while;

  if wrong is not null then
    signal sqlstate '45000' set message_text = wrong;
  end if;

  if event_id_in is null then
    -- UUID version 7: 48 bits of milliseconds, then random.
    set hex_time = lpad(hex(timestampdiff(microsecond, '1970-01-01 00:00:00', utc_timestamp(3)) div 1000), 12, '0');
    set hex_random = hex(random_bytes(10));
    set event_id_in = concat(
      substr(hex_time, 1, 8), '-',
      substr(hex_time, 9, 4), '-7',
      substr(hex_random, 1, 3), '-',
      elt(1 + (conv(substr(hex_random, 4, 1), 16, 10) & 3), '8', '9', 'a', 'b'),
      substr(hex_random, 5, 3), '-',
      substr(hex_random, 8, 12)
    );
  end if;
  set event_id_in = lower(event_id_in);

  insert into postroom_incoming (event_id, event_type, source, aggregate_type, aggregate_id, payload, headers)
  values (event_id_in, event_type_in, source_in, aggregate_type_in, aggregate_id_in, payload_in, headers_in);

  select event_id_in as event_id;
end;
