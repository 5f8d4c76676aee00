drop table postroom_alert;
