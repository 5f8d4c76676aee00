-- Ends what pooler_begin.sql began, if nobody has; the warning that nothing is open reaches nobody.
set local client_min_messages = error;
commit;
