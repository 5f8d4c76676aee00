drop table if exists postroom_access_token;
