drop table postroom.alert;
