drop procedure if exists postroom_cancel;
drop procedure if exists postroom_schedule;
