-- Every statement can be repeated: the server commits at each DDL, so a migration that broke off half-way is run again.

-- For other languages: schedules in the caller's transaction and selects the event's id. due_at is in UTC.
-- It checks what postroom_emit checks, in the same words, and the time. headers, event_id and source may be null.
drop procedure if exists postroom_schedule;
create procedure postroom_schedule(
  in event_type_in longtext character set utf8mb4 collate utf8mb4_bin,
  in aggregate_type_in longtext character set utf8mb4 collate utf8mb4_bin,
  in aggregate_id_in longtext character set utf8mb4 collate utf8mb4_bin,
  in payload_in longtext character set utf8mb4 collate utf8mb4_bin,
  in due_at_in datetime(6),
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
    when due_at_in is null then 'due_at is null; give a time in UTC between 1970 and 9999'
    -- A server that is not strict turns what is no time into the year 0.
    when year(due_at_in) not between 1970 and 9999
      then concat('due_at is in the year ', year(due_at_in), '; it must lie between 1970 and 9999')
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

  insert into postroom_outbox_scheduled (
    event_id,
    event_type,
    source,
    aggregate_type,
    aggregate_id,
    payload,
    headers,
    due_at
  )
  values (
    event_id_in,
    event_type_in,
    source_in,
    aggregate_type_in,
    aggregate_id_in,
    payload_in,
    headers_in,
    due_at_in
  );

  select event_id_in as event_id;
end;

-- Selects 1 as cancelled, or 0 when the event does not wait any more, or never did.
drop procedure if exists postroom_cancel;
create procedure postroom_cancel(
  in event_id_in longtext character set utf8mb4 collate utf8mb4_bin
)
  sql security invoker
begin
  -- In the character set of the column: otherwise the server compares, and locks, each row.
  declare waiting_id char(36) character set ascii collate ascii_bin;

  if coalesce(octet_length(event_id_in), 0) <> 36
    or event_id_in not regexp '^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$'
  then
    signal sqlstate '45000' set message_text = 'event_id is not a UUID of the form 8-4-4-4-12';
  end if;
  set waiting_id = lower(event_id_in);

  -- Waits for a relay that is releasing the event: it is released or cancelled, never both.
  delete from postroom_outbox_scheduled
  where event_id = waiting_id;

  select row_count() > 0 as cancelled;
end;
