-- The file in which the server has written its process id.
select @@pid_file
