drop table postroom.access_token;
