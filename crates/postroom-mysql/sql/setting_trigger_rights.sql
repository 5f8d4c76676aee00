-- Whether the migrations can create their triggers. The last of these is that of the archive.
select case
  when not @@log_bin then 'no binary log'
  when @@log_bin_trust_function_creators then 'on'
  when exists (
    select 1 from information_schema.triggers
    where trigger_schema = database() and trigger_name = 'postroom_audit_events_immutable'
  ) then 'off, and the triggers are there'
  when exists (
    select 1 from information_schema.user_privileges
    where privilege_type = 'SUPER' and grantee = concat('''', replace(current_user(), '@', '''@'''), '''')
  ) then 'off, and this user has SUPER'
  else 'off, and this user does not have SUPER'
end
