drop table postroom_access_token;
