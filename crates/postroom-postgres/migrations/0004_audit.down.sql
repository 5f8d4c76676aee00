drop table postroom.admin_audit;
drop table postroom.audit_events;
