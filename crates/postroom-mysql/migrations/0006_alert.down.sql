drop table if exists postroom_alert;
