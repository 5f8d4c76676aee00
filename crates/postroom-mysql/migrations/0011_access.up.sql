-- Tokens of services and people. The database never sees a token: it keeps its SHA-256, and the first characters for people.
create table if not exists postroom_access_token (
  hash char(64) character set ascii collate ascii_bin not null,
  hint varchar(40) not null,
  name varchar(100) not null,
  -- service | viewer | operator | admin
  role varchar(20) not null,
  -- {"modules": ["ledger"], "emit": ["shop.order.**"]}
  scope longtext not null,
  created_at datetime(6) not null default (utc_timestamp(6)),
  created_by varchar(200) not null,
  expires_at datetime(6) null,
  last_used_at datetime(6) null,
  revoked_at datetime(6) null,
  revoked_by varchar(200) null,
  primary key (hash),
  constraint postroom_access_token_scope check (json_valid(scope))
) engine=InnoDB default character set utf8mb4 collate /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;
